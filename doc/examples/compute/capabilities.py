import kiln

with kiln.open_compute('noop') as compute:
    print(kiln.models.Ability.SUSPEND in compute.capabilities().abilities)  # True
