"""What a plugin for Rind is written with in Python: a thin wrapper over the contract.

Imports of the host have modules of their own, such as `rind_sdk.log`: what a plugin does not import it does not ask for.
"""
