"""What do files from outside hold? One module for each format.

`logs.read_logs` returns a log for each task, `logs.attributes_of` lists the attributes that logs
hold, and `pairing.pair` finds the examples that two models both answered. `boxes.read_ground_truth`
and `boxes.read_detections` return what annotators drew and what detectors found.
"""
