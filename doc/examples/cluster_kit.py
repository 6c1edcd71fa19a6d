from kiln.testing.clusters import run_cluster_conformance

# A directory with a driver, module:Class, or the name of an installed driver.
report = run_cluster_conformance('example_v1', select=['Declaration'])
print(report.driver, report.ok)  # example_v1 True
