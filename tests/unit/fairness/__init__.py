"""Tests of fair shares."""
