"""The worker process: runs a problem's reference, a submission, or a tape, as its driver asks."""
