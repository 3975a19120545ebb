"""What will an audit cost: bytes on disk, and one measured step times the number of steps?"""
