-- How far apart are the seeds of one configuration?
SELECT study, trial, seed_kind, n_runs, final_return, final_return_lowest, final_return_highest
FROM run_spreads
WHERE n_runs > 1
ORDER BY study, final_return DESC
