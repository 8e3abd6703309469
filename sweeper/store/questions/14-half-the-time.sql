-- Which trials led when half of their time had passed? (Schedules were set for all of it.)
SELECT study, trial, seed, max(elapsed_seconds) AS after_seconds, max(training_return) AS best_so_far
FROM learning_curves
WHERE progress <= 0.5
GROUP BY study, trial, run_id, seed
ORDER BY study, best_so_far DESC
LIMIT 10
