-- What limits the speed of the trials?
SELECT study, coalesce(bottleneck, 'not known') AS bottleneck, count(*) AS trials,
       avg(steps_per_second) AS mean_steps_per_second, min(advice) AS advice
FROM trial_results
WHERE status = 'COMPLETED'
GROUP BY study, bottleneck
ORDER BY study, trials DESC
