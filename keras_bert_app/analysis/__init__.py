"""Looking inside an encoder: attention, probes, heads, senses. Each analysis is a module of registry.ANALYSES."""
