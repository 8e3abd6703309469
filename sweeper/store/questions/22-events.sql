-- What happened last?
SELECT e.at, s.name AS study, t.number AS trial, e.kind, e.detail
FROM events AS e
LEFT JOIN studies AS s ON s.study_id = e.study_id
LEFT JOIN trials AS t ON t.trial_id = e.trial_id
ORDER BY e.event_id DESC
LIMIT 20
