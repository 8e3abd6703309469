-- Which constraints keep trials off the front, and by how much at most?
SELECT s.name AS study, c.name AS constraint_name, count(*) AS trials, max(c.value) AS most
FROM trial_constraints AS c
JOIN trials AS t ON t.trial_id = c.trial_id
JOIN studies AS s ON s.study_id = t.study_id
WHERE c.value > 0
GROUP BY s.name, c.name
ORDER BY s.name, trials DESC
