-- Does the sampler do better than what came before it learned?
SELECT study, origin, coalesce(sampler, 'the study file') AS sampler, count(*) AS trials,
       avg(final_return) AS mean_return, max(final_return) AS best_return,
       avg(steps_per_second) AS mean_steps_per_second
FROM trial_results
WHERE status = 'COMPLETED'
GROUP BY study, origin, sampler
ORDER BY study, best_return DESC
