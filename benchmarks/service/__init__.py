"""A real ``glcb serve``, real databases and real traffic: what the load, the kills and the tests share."""
