-- Which optimizer with which schedule learns best?
SELECT study, algorithm, optimizer, schedule, count(*) AS trials,
       avg(final_return) AS mean_return, max(final_return) AS best_return
FROM trial_results
WHERE status = 'COMPLETED' AND feasible
GROUP BY study, algorithm, optimizer, schedule
ORDER BY study, best_return DESC
