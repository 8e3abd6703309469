-- What should I run? Every study's front: no other trial is better in all of its objectives.
SELECT study, number, final_return, steps_per_second, n_runs, params
FROM pareto_front
ORDER BY study, final_return DESC
