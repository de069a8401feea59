"""Retries, breakers, logging, correlation: no business."""
