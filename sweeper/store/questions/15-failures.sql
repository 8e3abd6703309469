-- What went wrong, how often, and why?
SELECT study, status, count(*) AS trials, min(number) AS first_trial, min(reason) AS a_reason
FROM trial_results
WHERE status NOT IN ('COMPLETED', 'RUNNING', 'QUEUED')
GROUP BY study, status
ORDER BY study, trials DESC
