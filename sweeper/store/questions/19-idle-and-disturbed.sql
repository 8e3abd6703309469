-- Which runs left their cores idle, or were disturbed by others?
SELECT s.name AS study, t.number AS trial, r.run_id, r.cpu_utilization, r.foreign_cpu_share,
       r.involuntary_switches, r.contended
FROM runs AS r
JOIN trials AS t ON t.trial_id = r.trial_id
JOIN studies AS s ON s.study_id = t.study_id
WHERE r.status = 'COMPLETED'
ORDER BY s.name, r.cpu_utilization
LIMIT 10
