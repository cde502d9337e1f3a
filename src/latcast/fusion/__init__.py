"""Which operators a runtime fuses, found out by timing small networks (nn-Meter §4.1), and scored where the runtime tells."""
