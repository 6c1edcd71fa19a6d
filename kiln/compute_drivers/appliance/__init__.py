"""The appliance driver: enrolled machines that are claimed, wiped and claimed again."""
