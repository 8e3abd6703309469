-- How do speed and return change with the number of environments?
SELECT study, n_envs, count(*) AS trials, avg(steps_per_second) AS mean_steps_per_second,
       avg(final_return) AS mean_return, max(final_return) AS best_return
FROM trial_results
WHERE status = 'COMPLETED'
GROUP BY study, n_envs
ORDER BY study, n_envs
