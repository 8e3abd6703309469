-- Which five trials of each study have the best return at the deadline?
SELECT study, number, final_return, steps_per_second, params
FROM (
  SELECT *, row_number() OVER (PARTITION BY study_id ORDER BY final_return DESC) AS place
  FROM trial_results
  WHERE status = 'COMPLETED' AND feasible AND final_return IS NOT NULL
) AS ranked
WHERE place <= 5
ORDER BY study, place
