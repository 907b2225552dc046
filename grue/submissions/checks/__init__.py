"""What is checked of a submission, and how."""
