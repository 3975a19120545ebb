"""Which boxes of a detector's ground truth are found, and how precise are its detections?

A detector reduces to a table: the example is a box of the ground truth, the cluster its image, and
right means found.
"""
