-- Where does the budget go, as shares, by number of environments?
SELECT study, n_envs, count(*) AS trials,
       avg(inference_seconds / elapsed_seconds) AS inference,
       avg(env_wait_seconds / elapsed_seconds) AS env_wait,
       avg(update_seconds / elapsed_seconds) AS learning,
       avg(normalize_seconds / elapsed_seconds) AS normalizing
FROM trial_results
WHERE status = 'COMPLETED' AND elapsed_seconds > 0
GROUP BY study, n_envs
ORDER BY study, n_envs
