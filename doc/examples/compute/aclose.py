import asyncio

import kiln


async def main() -> bool:
    compute = kiln.open_compute('noop')
    operation = compute.build(build_key='lb-1.2', until='active')
    # Whoever builds with this key again, after a restart, goes on with what is there.
    await compute.aclose(keep_builds=True)
    return operation.done()


print(asyncio.run(main()))  # True
