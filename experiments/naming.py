"""`register_resolvers`, for programs that compose conf/config.yaml themselves: it names the folders of runs."""

from experiments.config.folder_names import register_resolvers as register_resolvers
