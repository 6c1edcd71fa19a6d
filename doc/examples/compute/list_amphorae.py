import kiln

with kiln.open_compute('noop') as compute:
    compute.build(name='lb-1').result()
    print([amphora.name for amphora in compute.list_amphorae().result()])  # ['lb-1']
