"""The Hugging Face hub: its errors, retrying, which files a split has, and their transfer.

HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and tokens are read by huggingface_hub and work as everywhere.
"""
