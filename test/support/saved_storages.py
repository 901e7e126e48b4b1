"""What PyTorch's autograd keeps: the storages of the tensors that it is given."""


class SavedStorages:
    """Storages by address, but for those of a module's parameters and buffers.

        saved = SavedStorages(model)
        with torch.autograd.graph.saved_tensors_hooks(saved.keep, lambda t: t):
            output = model(*inputs)
        saved.bytes()
    """

    def __init__(self, module):
        self._own = {t.untyped_storage().data_ptr()
                     for t in [*module.parameters(), *module.buffers()]}
        # The tensors stay alive, so that no address is used twice.
        self._kept = {}

    def keep(self, tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._own:
            self._kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    def sizes(self) -> dict[int, int]:
        """Bytes by address."""
        return {address: size for address, (size, _) in self._kept.items()}

    def bytes(self) -> int:
        return sum(self.sizes().values())
