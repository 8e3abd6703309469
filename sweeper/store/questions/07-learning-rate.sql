-- Which learning rates worked? In bins of a factor of two.
SELECT study, min(learning_rate) AS from_rate, max(learning_rate) AS to_rate, count(*) AS trials,
       avg(final_return) AS mean_return, max(final_return) AS best_return
FROM trial_results
WHERE status = 'COMPLETED'
GROUP BY study, floor(ln(learning_rate) / ln(2))
ORDER BY study, from_rate
