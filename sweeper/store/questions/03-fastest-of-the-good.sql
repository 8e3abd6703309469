-- Which is the fastest trial among those within 5% of the best return?
SELECT study, number, final_return, steps_per_second, params
FROM (
  SELECT good.*, row_number() OVER (PARTITION BY study_id ORDER BY steps_per_second DESC) AS place
  FROM (
    SELECT *, max(final_return) OVER (PARTITION BY study_id) AS best
    FROM trial_results
    WHERE status = 'COMPLETED' AND feasible
  ) AS good
  WHERE final_return >= best - 0.05 * abs(best)
) AS ranked
WHERE place = 1
ORDER BY study
