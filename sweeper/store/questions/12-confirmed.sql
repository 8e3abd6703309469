-- Does what was found hold on seeds that the search has not seen?
SELECT study, number, final_return, test_final_return, n_runs, n_test_runs
FROM trial_results
WHERE n_test_runs > 0
ORDER BY study, test_final_return DESC
