"""Test harness for the service: real servers, databases and traffic, shared by benchmarks and tests."""
