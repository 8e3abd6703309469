-- Which parameters mattered most, to which objective?
SELECT s.name AS study, i.objective, i.path, i.importance
FROM importances AS i
JOIN studies AS s ON s.study_id = i.study_id
WHERE i.at = (
  SELECT max(latest.at) FROM importances AS latest WHERE latest.study_id = i.study_id
)
ORDER BY s.name, i.objective, i.importance DESC
