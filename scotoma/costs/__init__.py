"""What will an audit cost: time, disk and memory, before anything is trained?"""
