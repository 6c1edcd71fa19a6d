import asyncio

import kiln


async def main() -> bool:
    compute = kiln.open_compute('noop')
    operation = compute.build(build_key='lb-1.2', until='active')
    # A build with this key after a restart adopts the machine that exists.
    await compute.aclose(keep_builds=True)
    return operation.done()


print(asyncio.run(main()))  # True
