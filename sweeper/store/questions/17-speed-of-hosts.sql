-- How fast is each machine on the same configurations? Only trials that ran on several.
SELECT h.study, h.trial, h.hostname, h.cpu_model, h.steps_per_second, h.n_runs
FROM host_speeds AS h
JOIN (
  SELECT trial_id FROM host_speeds GROUP BY trial_id HAVING count(*) > 1
) AS several ON several.trial_id = h.trial_id
ORDER BY h.study, h.trial, h.steps_per_second DESC
