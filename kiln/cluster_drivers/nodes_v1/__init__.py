"""Plain nodes: all there is to this driver is beside this file, in driver.yaml."""

from pathlib import Path

from kiln.cluster_drivers.directory import load_directory

Driver = load_directory(Path(__file__).parent)
