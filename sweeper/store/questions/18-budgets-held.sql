-- Did the budgets hold? The longest that a run went past its own.
SELECT s.name AS study, count(*) AS runs, avg(r.overshoot_seconds) AS mean_overshoot_seconds,
       max(r.overshoot_seconds) AS most_overshoot_seconds, max(r.setup_seconds) AS longest_setup
FROM runs AS r
JOIN trials AS t ON t.trial_id = r.trial_id
JOIN studies AS s ON s.study_id = t.study_id
WHERE r.status = 'COMPLETED' AND r.budget_seconds IS NOT NULL
GROUP BY s.name
ORDER BY s.name
