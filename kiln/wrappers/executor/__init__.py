"""The executor: worker threads, queue, attempts of a call, safe builds."""
