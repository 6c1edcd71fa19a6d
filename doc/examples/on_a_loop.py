import asyncio

import kiln


async def built(compute: kiln.Compute, name: str) -> str:
    return await compute.build(name=name, build_key=name, until='active')


async def main() -> None:
    async with await asyncio.to_thread(kiln.open_compute, 'noop') as compute:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(built(compute, name)) for name in ('lb-1', 'lb-2')]
        print(len({task.result() for task in tasks}))  # 2


asyncio.run(main())
