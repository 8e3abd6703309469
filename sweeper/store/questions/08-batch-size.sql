-- How large a rollout, and how large a minibatch, should I take?
SELECT study, batch_size, minibatch_size, count(*) AS trials, avg(updates) AS mean_updates,
       avg(final_return) AS mean_return, max(final_return) AS best_return
FROM trial_results
WHERE status = 'COMPLETED'
GROUP BY study, batch_size, minibatch_size
ORDER BY study, best_return DESC
LIMIT 20
