-- How do the front's trials compare with the baseline, in return and in speed?
SELECT f.study, f.number, f.final_return, b.final_return AS baseline_return,
       f.steps_per_second / b.steps_per_second AS times_as_fast, f.params
FROM pareto_front AS f
JOIN trial_results AS b ON b.study_id = f.study_id AND b.origin = 'baseline'
WHERE b.status = 'COMPLETED'
ORDER BY f.study, f.final_return DESC
