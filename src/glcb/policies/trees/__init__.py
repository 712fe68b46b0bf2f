"""Policies on tree ensembles. They train with XGBoost, the extra ``trees``."""
