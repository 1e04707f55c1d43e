"""Grafana's dashboards, written by a program: `make docs` writes `deploy/grafana/*.json`.

panels.py      what a panel and a dashboard are, and their JSON
dashboards.py  the dashboards: which questions they answer, with which expressions
"""
