"""An evaluation from the call to its result: predictions and labels in, figures of all users out."""
