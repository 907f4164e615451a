#!/usr/bin/env node
// Without a listener, Node.js opens its inspector at this signal, on a port that every user of the machine reaches.
process.on('SIGUSR1', () => {})
// After the listener: static imports would come first.
const { main } = await import('../bundle/main.js')

await main(process.argv.slice(2))
