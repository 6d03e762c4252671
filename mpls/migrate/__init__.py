"""Rewrites programs and notebooks so that they use today's names; nothing of them runs, and no framework is loaded."""
