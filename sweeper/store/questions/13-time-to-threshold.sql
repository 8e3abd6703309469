-- How soon is the environment solved? Runs that never got there are told apart.
SELECT study, trial, count(*) AS runs, sum(CASE WHEN reached THEN 1 ELSE 0 END) AS reached,
       min(seconds_to_threshold) AS soonest_seconds, max(seconds_to_threshold) AS latest_seconds
FROM time_to_threshold
GROUP BY study, trial
ORDER BY study, reached DESC, soonest_seconds
LIMIT 10
