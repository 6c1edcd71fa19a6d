"""Ways to call a hook: a program, a web server, a function in this process."""
