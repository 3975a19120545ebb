"""The members of a shard: their files, their forms, what they predict."""
